"""A search as the papers write it down: one tree, recursive, every formula in full, in float64.

Written from Schrittwieser et al. 2020 (arXiv:1911.08265, appendix B), Danihelka et al. 2022 (the
paper on planning with Gumbel) and Hubert et al. 2021 (arXiv:2104.06303).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

Said = tuple[object, float, float, Sequence[float]]  # state, reward, value, logits


@dataclass
class Node:
    """A state of the model, and what came back from it, its own value first."""

    state: object
    reward: float
    value: float
    logits: dict[int, float]
    returns: list[float] = field(default_factory=list)
    children: dict[int, Node] = field(default_factory=dict)

    @property
    def visits(self) -> int:
        return len(self.returns)

    @property
    def prior(self) -> dict[int, float]:
        return softmax(self.logits)


@dataclass
class PlainSearch:
    """One search; see `fast_core.algos.muzero.search.Search` for what its numbers mean."""

    model: Callable[[object, int], Said]
    simulations: int
    discount: float
    root: str
    two_players: bool
    considered: int
    c_visit: float = 50.0
    c_scale: float = 0.1
    least_span: float = 0.01
    pb_c_base: float = 19_652.0
    pb_c_init: float = 1.25
    dirichlet_alpha: float = 0.3
    dirichlet_fraction: float = 0.25

    def run(
        self, said: Said, mask: Sequence[bool], noise: Sequence[float] | None
    ) -> tuple[int, list[float], float, list[int]]:
        """Action, policy, value and visits."""
        state, _, value, logits = said
        allowed = [a for a, able in enumerate(mask) if able]
        top = Node(state, 0.0, value, {a: logits[a] for a in allowed}, [value])
        self.top, self.seen = top, []
        self.gumbel = dict.fromkeys(allowed, 0.0)
        self.root_prior = top.prior
        if noise is not None and self.root == "gumbel":
            self.gumbel = {a: -math.log(-math.log(noise[a])) for a in allowed}
        elif noise is not None:
            drawn = dirichlet([noise[a] for a in allowed], self.dirichlet_alpha)
            part = self.dirichlet_fraction
            mixed = {
                a: (1 - part) * top.prior[a] + part * d for a, d in zip(allowed, drawn, strict=True)
            }
            self.root_prior = mixed
        self.halving = Halving(min(self.considered, len(allowed)), self.simulations)
        for _ in range(self.simulations):
            self.simulate(top)
        visits = {a: top.children[a].visits if a in top.children else 0 for a in allowed}
        if self.root == "puct":
            action = first_best(visits)
            policy = {a: n / self.simulations for a, n in visits.items()}
        else:
            most = max(visits.values())
            scores = self.root_scores()
            action = first_best({a: s for a, s in scores.items() if visits[a] == most})
            policy = self.improved(top)
        every = range(len(mask))
        return (
            action,
            [policy.get(a, 0.0) for a in every],
            mean(top),
            [visits.get(a, 0) for a in every],
        )

    def simulate(self, node: Node) -> float:
        """What came of one more visit, for who is to move in this node."""
        action = self.choose(node)
        child = node.children.get(action)
        if child is None:
            state, reward, value, logits = self.model(node.state, action)
            child = Node(state, reward, value, dict(enumerate(logits)), [value])
            node.children[action] = child
            beyond = value
        else:
            beyond = self.simulate(child)
        self.seen.append(self.q(child))
        # What is good for the next player is bad for this one.
        result = child.reward + self.discount * (-beyond if self.two_players else beyond)
        node.returns.append(result)
        return result

    def q(self, child: Node) -> float:
        after = mean(child)
        return child.reward + self.discount * (-after if self.two_players else after)

    def choose(self, node: Node) -> int:
        if self.root == "puct":
            return self.by_puct(node)
        return self.by_halving() if node is self.top else self.by_improvement(node)

    def by_puct(self, node: Node) -> int:
        """Equation 2, with equation 5's values; no visit, no value (pseudocode)."""
        prior = self.root_prior if node is self.top else node.prior
        low, high = min(self.seen, default=0.0), max(self.seen, default=0.0)
        total = node.visits
        scores = {}
        for a in node.logits:
            child = node.children.get(a)
            count = child.visits if child else 0
            value = (self.q(child) - low) / max(high - low, self.least_span) if child else 0.0
            factor = self.pb_c_init + math.log((total + self.pb_c_base + 1) / self.pb_c_base)
            scores[a] = value + prior[a] * math.sqrt(total) / (1 + count) * factor
        return first_best(scores)

    def completed(self, node: Node) -> dict[int, float]:
        """``sigma`` of equation 8 of the completed values of equation 10, all within [0, 1]."""
        q = {a: self.q(child) for a, child in node.children.items()}
        counts = {a: child.visits for a, child in node.children.items()}
        mixed = node.value  # appendix D
        if q:
            share = sum(node.prior[a] for a in q)
            weighted = sum(node.prior[a] * q[a] for a in q) / share
            total = sum(counts.values())
            mixed = (node.value + total * weighted) / (1 + total)
        full = {a: q.get(a, mixed) for a in node.logits}
        low, high = min(full.values()), max(full.values())
        scale = (self.c_visit + max(counts.values(), default=0)) * self.c_scale
        return {a: scale * (v - low) / max(high - low, self.least_span) for a, v in full.items()}

    def improved(self, node: Node) -> dict[int, float]:
        """Equation 11."""
        sigma = self.completed(node)
        return softmax({a: logit + sigma[a] for a, logit in node.logits.items()})

    def by_improvement(self, node: Node) -> int:
        """Equation 14."""
        policy = self.improved(node)
        counts = {a: node.children[a].visits if a in node.children else 0 for a in policy}
        total = sum(counts.values())
        return first_best({a: policy[a] - counts[a] / (1 + total) for a in policy})

    def root_scores(self) -> dict[int, float]:
        sigma = self.completed(self.top)
        return {a: self.gumbel[a] + logit + sigma[a] for a, logit in self.top.logits.items()}

    def by_halving(self) -> int:
        children = self.top.children
        counts = {a: children[a].visits if a in children else 0 for a in self.top.logits}
        due = self.halving.next_visit()
        return first_best({a: s for a, s in self.root_scores().items() if counts[a] == due})


class Halving:
    """Rounds of sequential halving: who visits whom how often (algorithm 2)."""

    def __init__(self, actions: int, simulations: int) -> None:
        self.simulations, self.left, self.visits = simulations, actions, 0
        self.rounds = math.ceil(math.log2(actions)) if actions > 1 else 0
        self.laps = self.laps_of_round()
        self.visited = 0  # in this lap

    def laps_of_round(self) -> int:
        if self.rounds == 0:
            return self.simulations
        return max(1, math.floor(self.simulations / (self.rounds * self.left)))

    def next_visit(self) -> int:
        """How many visits the action had that is visited now."""
        if self.visited == self.left:
            self.visited, self.visits, self.laps = 0, self.visits + 1, self.laps - 1
            if self.laps == 0:
                self.left = max(2, self.left // 2)
                self.laps = self.laps_of_round()
        self.visited += 1
        return self.visits


def mean(node: Node) -> float:
    return sum(node.returns) / len(node.returns)


def softmax(logits: dict[int, float]) -> dict[int, float]:
    most = max(logits.values())
    powers = {a: math.exp(x - most) for a, x in logits.items()}
    total = sum(powers.values())
    return {a: p / total for a, p in powers.items()}


def first_best(scores: dict[int, float]) -> int:
    return min(scores, key=lambda a: (-scores[a], a))


def dirichlet(uniform: Sequence[float], alpha: float) -> list[float]:
    """Gamma numbers, each by bisection of torch's distribution function, over their sum."""
    wanted = torch.tensor(uniform, dtype=torch.float64)
    shape = torch.full_like(wanted, alpha)
    low, high = torch.full_like(wanted, -700.0), torch.full_like(wanted, 5.0)  # logarithms
    for _ in range(100):
        middle = (low + high) / 2
        below = torch.special.gammainc(shape, middle.exp()) < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.softmax(low, 0).tolist()
