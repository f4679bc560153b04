"""The pure core that decides who works next."""

from fast_core.scheduler.core import Scheduler
from fast_core.scheduler.failures import Budget
from fast_core.scheduler.life import CALLBACKS, LAUNCHER, Send
from fast_core.scheduler.settings import FlowSettings, SchedulerSettings
from fast_core.scheduler.statistics import Statistics

__all__ = [
    "CALLBACKS",
    "LAUNCHER",
    "Budget",
    "FlowSettings",
    "Scheduler",
    "SchedulerSettings",
    "Send",
    "Statistics",
]
