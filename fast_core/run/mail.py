"""What nodes tell one another in mailboxes, beside the rows: the words, declared per use.

`fast_core.run.memory.RunMemory` says who writes which mailbox and what its rows are.
"""

from __future__ import annotations

from typing import NamedTuple


class Request(NamedTuple):
    """What a group of environments asks its policy node.

    Attributes:
        incarnation: The shard's.
        min_version: Oldest weights that may act.
        asker: Rank of the env node that waits.
    """

    incarnation: int
    min_version: int
    asker: int


class Reply(NamedTuple):
    """What the policy node answers.

    Attributes:
        incarnation: The one that asked.
        version: The weights that acted.
    """

    incarnation: int
    version: int


class Drawn(NamedTuple):
    """A batch for an optimizer.

    Attributes:
        rows: How many are valid: all, or none where nothing could be drawn.
        env_steps: Environment steps when it was drawn.
    """

    rows: int
    env_steps: int


class Moment(NamedTuple):
    """How far the replay node is with what tickets grant; the number counts moments.

    Attributes:
        ticket: The last ticket of which steps were drawn.
        left: How many of its steps are not.
    """

    ticket: int
    left: int


class Carried(NamedTuple):
    """What an answer of the part of the run before has; the rows are those.

    Attributes:
        has_errors: Whether there are absolute errors.
        version: Of the learner that said something of the rows, -1 if it said nothing.
    """

    has_errors: bool
    version: int = -1


class Learnt(NamedTuple):
    """What an optimizer says of a batch that it is done with.

    Attributes:
        has_errors: Whether the rows hold its absolute errors.
        version: Of the learner, where they hold what it says of them; -1 where they don't.
    """

    has_errors: bool
    version: int = -1


class Gradient(NamedTuple):
    """What one of several optimizers found at its batch.

    Attributes:
        length: Numbers of the vector that count; 0 where there was no batch.
        base: Steps behind the parameters that it was computed at, for optimizers that don't
            average.
        has_digest: Whether it comes with the digest of what all must have alike.
    """

    length: int
    base: int = 0
    has_digest: bool = False


class Base(NamedTuple):
    """Where one of several optimizers that don't average differentiates next.

    Attributes:
        steps: Steps behind the parameters; negative while it waits for leave to begin.
    """

    steps: int


class Applied(NamedTuple):
    """How far the first optimizer is with the gradients of another; the number counts them.

    Attributes:
        begun: Number of the last batch that it let the other begin, where that must ask.
    """

    begun: int


class Meeting(NamedTuple):
    """Where optimizers meet that average by a collective of torch.

    Attributes:
        key: No other start of the run has the same.
    """

    key: int
