from fast_core.api.config import Config as Config
from fast_core.api.environment import make_env as make_env
from fast_core.api.runs import Result as Result
from fast_core.api.runs import Run as Run
from fast_core.api.runs import RunInterrupted as RunInterrupted
from fast_core.api.training import train as train
from fast_core.errors import ConfigError as ConfigError
from fast_core.errors import FastLoopError as FastLoopError
from fast_core.errors import RunFailed as RunFailed
from fast_core.policy import Episodes as Episodes
from fast_core.policy import Policy as Policy
from fast_core.policy import evaluate as evaluate
from fast_core.policy import load_policy as load_policy

__version__: str
