"""What a shell completes: `fastloop completion SHELL` prints the script that asks `candidates`."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

from fast_core.errors import ConfigError
from fast_core.tools.command_line import Argument, Program

# Bash cuts words at `=`, so what lies before is taken off the answers again.
_BASH = """\
_fastloop() {
  local word="${COMP_LINE:0:COMP_POINT}" cur="${COMP_WORDS[COMP_CWORD]}"
  local IFS=$'\\n' full="${word##* }"
  COMPREPLY=($(fastloop complete -- "$word" 2>/dev/null))
  [[ "$full" == *=* && "$full" != "$cur" ]] && COMPREPLY=("${COMPREPLY[@]#"${full%"${cur#=}"}"}")
  [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace
}
complete -o default -F _fastloop fastloop
"""
_ZSH = """\
_fastloop() {
  local -a found=("${(@f)$(fastloop complete -- "$LBUFFER" 2>/dev/null)}")
  found=(${found:#})
  (( $#found )) || { _files; return }
  compadd -S '' -- ${(M)found:#*=}
  compadd -- ${found:#*=}
}
compdef _fastloop fastloop
"""
SCRIPTS = {
    "bash": _BASH,
    "zsh": _ZSH,
    "fish": "complete -c fastloop -a '(fastloop complete -- (commandline -cp))'\n",
}


def script(shell: str) -> str:
    """What a shell's start-up file has to evaluate.

    Raises:
        ConfigError: It is none of `SCRIPTS`.
    """
    if shell not in SCRIPTS:
        raise ConfigError(f"completion must be for one of {', '.join(SCRIPTS)}; got {shell!r}.")
    return SCRIPTS[shell]


def candidates(program: Program, line: str) -> list[str]:
    """Whole words that the last one of ``line``, which may be empty, can become.

    Nothing where files are to be completed; errors are nobody's here.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # a quote is open
        return []
    if not words or line[-1:].isspace():
        words.append("")
    *before, word = words[1:] or [""]
    return sorted({each for each in _possible(program, before, word) if each.startswith(word)})


def _possible(program: Program, before: list[str], word: str) -> Iterator[str]:
    told = [name for name, each in program.commands.items() if each.examples]
    first = [name for name in told if name.split()[: len(before)] == before]
    if len(before) < 2 and first and before != first[0].split():
        yield from (name.split()[len(before)] for name in first)
        return
    name = next((n for n in program.commands if n.split() == before[: len(n.split())]), None)
    if name is None:
        return
    declared = [*program.commands[name].parameters()]
    if word.startswith("-"):
        yield from program.commands[name].options()
        return
    for parameter, kind, declaration, _ in declared:
        names = getattr(declaration, "names", "").split() or [f"--{parameter.replace('_', '-')}"]
        if before[-1] in names and kind is not bool:
            yield from _words(declaration.words, word)
            return
    places = [each for _, _, each, _ in declared if isinstance(each, Argument)]
    given = sum(not each.startswith("-") for each in before[len(name.split()) :])
    if places:
        yield from _words(places[min(given, len(places) - 1)].words, word)


def _words(kind: str, word: str) -> Iterator[str]:
    """Words of a kind that is declared with an argument or option."""
    from fast_core.config.algorithms import REGISTRY
    from fast_core.config.shipped import names

    match kind:
        case "algorithm":
            yield from REGISTRY
        case "config":
            yield from names()
        case "shell":
            yield from SCRIPTS
        case "key":
            yield from _keys()
        case "override":
            yield from _overrides(word)
        case "environment":
            import gymnasium

            with contextlib.suppress(ConfigError):
                from fast_core.envs.atari import import_ale

                import_ale()
            yield from gymnasium.registry


def _keys() -> Iterator[str]:
    from fast_core.config import RunConfig
    from fast_core.config.algorithms import REGISTRY, algorithm_config_type
    from fast_core.config.schema import paths

    yield from paths(RunConfig)
    for name in REGISTRY:
        yield from paths(algorithm_config_type(name), "algorithm.")


def _overrides(word: str) -> Iterator[str]:
    """Keys of values with their equals sign, or behind that the values that are listed."""
    from fast_core.config import RunConfig
    from fast_core.config.algorithms import REGISTRY, algorithm_config_type
    from fast_core.config.environment_types import BACKENDS
    from fast_core.config.schema import choices, keys
    from fast_core.config.yaml_text import inline

    path, equals, _ = word.partition("=")
    if not equals:
        every = {*_keys()}
        groups = {each.rpartition(".")[0] for each in every}
        yield from (f"{each}=" for each in every - groups)
        return
    if path == "algorithm.name":
        yield from (f"{path}={each}" for each in REGISTRY)
        return
    if path == "environment.backend":
        yield from (f"{path}={each}" for each in BACKENDS)
        return
    kinds: list[type] = [RunConfig]
    for name in path.split("."):
        found = [key for kind in kinds if (key := keys(kind).get(name))]
        kinds = [key.section for key in found if key.section]
        if name == "algorithm":
            kinds = [algorithm_config_type(each) for each in REGISTRY]
    yield from {f"{path}={inline(each)}" for key in found for each in choices(key.annotation)}
