// The trees of many searches side by side: one root each, all in a few flat arrays.
//
// Every simulation adds one node to every tree, so a node's number is that of its simulation, and 0
// is the root. What a tree does depends on its own numbers alone, in an order that is fixed: its
// bits are the same whatever stands beside it. All is computed in double precision; networks give
// and get single.
//
// Nodes know the actions that were tried by their children; the shares of all others in the policy
// lie in the node's row. They share one value, so that a look at a node costs as much as it has
// children: of the actions not tried the one with the largest share is the best, and their sum is
// all that a softmax needs of them. Both change only when an action is tried first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace fastloop::search {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeastShare = 1e-300;  // of an action, so that no mean is one over nothing
constexpr double kLeastExponent = -700.0;  // whose exponential is not 0
constexpr double kNoShare = -1.0;  // in a row: of what was tried, or isn't allowed

struct Rules {
  std::int32_t actions;
  std::int32_t simulations;
  std::int32_t considered;  // actions of a Gumbel root, at most; 0: the root is PUCT's
  double continuation;      // factor of the next node's value; negative where players take turns
  double visit_offset, value_scale;  // Danihelka et al. 2022: c_visit, c_scale
  double least_span;                 // what differences of values are divided by at least
  double exploration_base, exploration;  // Schrittwieser et al. 2020: c_2, c_1
  double noise_share, noise_shape;  // of a PUCT root: share of Dirichlet's numbers, their alpha

  bool gumbel() const { return considered > 0; }
  // Numbers of a schedule: `simulations` for each number of actions from 0 to `considered`.
  std::size_t scheduled() const {
    return gumbel() ? (considered + std::size_t{1}) * static_cast<std::size_t>(simulations) : 0;
  }
};

// What is not finite; of a mask, that it allows nothing.
enum class Fault { none, reward, value, logits, mask };

struct Refusal {
  Fault fault;
  std::int64_t root;
};

// The logarithm of a number with the distribution Gamma(shape, 1), of one that is uniform in
// (0, 1); `factor` is the logarithm of Gamma(shape + 1). Newton's method on the logarithm of the
// distribution function, which is concave in log x: from the left of the solution it never steps
// over it.
inline double log_gamma_quantile(double uniform, double shape, double factor) {
  const double wanted = std::log(uniform);
  double y = (wanted + factor) / shape;  // the function is at most x^shape / Gamma(shape + 1)
  for (int step = 0; step < 60; ++step) {
    const double x = std::exp(y);
    double sum = 1.0, term = 1.0;
    for (int n = 1; term > 1e-17 * sum && n < 500; ++n) sum += term *= x / (shape + n);
    const double log_below = shape * y - x - factor + std::log(sum);
    const double move = (wanted - log_below) * sum / shape;  // the slope is shape / sum
    y += move;
    if (!(move > 1e-7)) break;  // what is left is its square
  }
  return y;
}

// The action with the highest score; of equal ones the first. One that was offered is chosen,
// whatever scores are: places follow from it.
struct Choice {
  double score = -kInfinity;
  std::int32_t action = -1;
  std::int32_t child = 0;

  void offer(double offered, std::int32_t with, std::int32_t leads_to) {
    if (action < 0 || offered > score || (offered == score && with < action))
      *this = {offered, with, leads_to};
  }
};

class Trees {
 public:
  // `schedule` says of Gumbel roots, for each number of actions they consider and each simulation,
  // how often the action was visited that is visited next.
  Trees(const Rules& rules, std::int64_t capacity, const std::int32_t* schedule)
      : rules_(rules),
        capacity_(capacity),
        nodes_of_tree_(static_cast<std::size_t>(rules.simulations) + 1),
        schedule_(schedule, schedule + rules.scheduled()),
        nodes_(nodes_of_tree_ * capacity),
        rows_(nodes_.size() * rules.actions),
        keys_(rules.gumbel() ? static_cast<std::size_t>(capacity) * rules.actions : 0),
        roots_(capacity),
        work_(rules.actions) {}

  const Rules& rules() const { return rules_; }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t roots() const { return count_; }
  std::int32_t done() const { return done_; }  // simulations

  // Forgets all and begins `roots` trees. `allowed` and `noise` may be null: everything is, and
  // the root's choices are not disturbed.
  Refusal begin(std::int64_t roots, const float* value, const float* logits, const bool* allowed,
                const float* noise) {
    count_ = roots;
    done_ = 0;
    for (std::int64_t b = 0; b < roots; ++b) {
      const std::size_t first = b * static_cast<std::size_t>(rules_.actions);
      const bool* mask = allowed == nullptr ? nullptr : allowed + first;
      const Fault fault = begin(b, value[b], logits + first, mask, noise ? noise + first : nullptr);
      if (fault != Fault::none) return {fault, b};
    }
    return {Fault::none, 0};
  }

  // Which node of each tree is to be looked beyond, and by which action.
  void select(std::int64_t* place, std::int64_t* action) {
    for (std::int64_t b = 0; b < count_; ++b) {
      Root& root = roots_[b];
      Node* nodes = tree(b);
      std::int32_t at = 0;
      Choice choice = rules_.gumbel() ? visited(b, root.schedule[done_]) : choose(b, 0);
      while (choice.child != 0) {
        at = choice.child;
        open(nodes[at], row(b, at));
        choice = choose(b, at);
      }
      root.parent = at;
      root.action = choice.action;
      place[b] = at * capacity_ + b;
      action[b] = choice.action;
    }
  }

  // Adds the nodes that `select` led to, with what networks said of them.
  Refusal expand(const float* reward, const float* value, const float* logits) {
    const std::int32_t added = done_ + 1;
    for (std::int64_t b = 0; b < count_; ++b) {
      const float* scores = logits + b * static_cast<std::size_t>(rules_.actions);
      const Fault fault = look(reward[b], value[b], scores, nullptr);
      if (fault != Fault::none) return {fault, b};
      const Root& root = roots_[b];
      Node* nodes = tree(b);
      Node &parent = nodes[root.parent], &node = nodes[added];
      double* shares = row(b, root.parent);
      node = {};
      node.sum = node.value = value[b];
      node.reward = reward[b];
      node.visits = 1;
      node.parent = root.parent;
      node.action = root.action;
      node.untried = kClosed;
      node.share = shares[root.action];
      node.sibling = parent.child;
      parent.child = added;
      shares[root.action] = kNoShare;
      count_untried(parent, shares);
      std::copy(scores, scores + rules_.actions, row(b, added));
    }
    done_ = added;
    return {Fault::none, 0};
  }

  // Carries the values of the nodes added last to all nodes on the way to them.
  void backup() {
    for (std::int64_t b = 0; b < count_; ++b) {
      Root& root = roots_[b];
      Node* nodes = tree(b);
      double value = nodes[done_].value;
      for (std::int32_t at = done_; at != 0; at = nodes[at].parent) {
        Node& node = nodes[at];
        if (at != done_) node.visit(value);
        node.q = node.reward + rules_.continuation * node.mean();
        root.least = std::min(root.least, node.q);
        root.most = std::max(root.most, node.q);
        value = node.reward + rules_.continuation * value;
      }
      nodes[0].visit(value);
    }
  }

  // What came of it: `policy` and `visits` have a number for each action.
  void result(std::int64_t* action, float* policy, float* value, std::int32_t* visits) {
    for (std::int64_t b = 0; b < count_; ++b) {
      const std::size_t first = b * static_cast<std::size_t>(rules_.actions);
      const Node& root = tree(b)[0];
      std::fill_n(visits + first, rules_.actions, 0);
      Choice most;
      for_children(b, root, [&](const Node& child) {
        visits[first + child.action] = child.visits;
        most.offer(child.visits, child.action, 0);
      });
      value[b] = static_cast<float>(root.mean());
      if (rules_.gumbel()) {
        action[b] = visited(b, visits[first + most.action]).action;
        improved_policy(b, policy + first);
        continue;
      }
      action[b] = most.action;
      for (std::int32_t a = 0; a < rules_.actions; ++a)
        policy[first + a] = static_cast<float>(visits[first + a] / static_cast<double>(done_));
    }
  }

 private:
  static constexpr std::int32_t kAllTried = -1, kClosed = -2;

  struct Node {
    double sum;     // of the values that came back, that of the networks first
    double value;   // the networks'
    double reward;  // of the step to here
    double q;       // of that step: what who took it expects from it
    double share;   // of that step in the policy
    double rest;    // of the policy: the actions not tried
    std::int32_t visits;
    std::int32_t parent, action;
    std::int32_t child, sibling;  // the one added last; the one added before to the same parent
    std::int32_t untried;         // the best action not tried; or kAllTried, kClosed: never asked

    double mean() const { return sum / visits; }
    void visit(double value_of_it) {
      sum += value_of_it;
      ++visits;
    }
  };

  struct Root {
    double least, most;            // Q in this tree
    std::int32_t parent, action;   // what was selected
    const std::int32_t* schedule;  // of a Gumbel root
  };

  // A node's values with those of actions not tried completed by the mixed value, rescaled to
  // [0, 1] within the node and then by how often it was visited.
  struct Completed {
    double mixed, most, scale;
    double factor(double q) const { return std::exp(exponent(q)); }
    double exponent(double q) const { return std::max(scale * (q - most), kLeastExponent); }
  };

  Node* tree(std::int64_t b) { return nodes_.data() + b * nodes_of_tree_; }
  double* row(std::int64_t b, std::int32_t node) {
    return rows_.data() + (b * nodes_of_tree_ + node) * rules_.actions;
  }

  template <class Visit>
  void for_children(std::int64_t b, const Node& node, Visit visit) {
    const Node* nodes = tree(b);
    for (std::int32_t at = node.child; at != 0; at = nodes[at].sibling) visit(nodes[at]);
  }

  Fault look(float reward, float value, const float* logits, const bool* allowed) const {
    if (!std::isfinite(reward)) return Fault::reward;
    if (!std::isfinite(value)) return Fault::value;
    bool finite = true;
    for (std::int32_t a = 0; a < rules_.actions; ++a)
      finite &= std::isfinite(logits[a]) || (allowed != nullptr && !allowed[a]);
    return finite ? Fault::none : Fault::logits;
  }

  Fault begin(std::int64_t b, float value, const float* logits, const bool* allowed,
              const float* noise) {
    const std::int32_t actions = rules_.actions;
    auto choices = actions;
    if (allowed != nullptr)
      choices = static_cast<std::int32_t>(std::count(allowed, allowed + actions, true));
    if (choices == 0) return Fault::mask;
    const Fault fault = look(0.0f, value, logits, allowed);
    if (fault != Fault::none) return fault;
    Root& root = roots_[b];
    root = {kInfinity, -kInfinity, 0, 0, nullptr};
    Node& node = tree(b)[0];
    node = {};
    node.sum = node.value = value;
    node.visits = 1;
    node.untried = kClosed;
    double* shares = row(b, 0);
    for (std::int32_t a = 0; a < actions; ++a)
      shares[a] = allowed == nullptr || allowed[a] ? logits[a] : -kInfinity;
    if (rules_.gumbel()) {
      root.schedule = schedule_.data() + std::min(rules_.considered, choices) *
                                             static_cast<std::size_t>(rules_.simulations);
      for (std::int32_t a = 0; a < actions; ++a)
        keys_[b * actions + a] = shares[a] + (noise == nullptr ? 0.0 : gumbel(noise[a]));
    }
    open(node, shares);
    if (!rules_.gumbel() && noise != nullptr) disturb(node, shares, noise);
    return Fault::none;
  }

  static double within(float uniform) {  // a stream may give 0; in this order NaN is the least
    return std::min(1.0 - 1e-9, std::max(1e-9, static_cast<double>(uniform)));
  }
  static double gumbel(float uniform) { return -std::log(-std::log(within(uniform))); }

  // Makes shares of a row's logits when a node is first asked; most never are. What isn't allowed
  // has the logit minus infinity.
  void open(Node& node, double* shares) {
    if (node.untried != kClosed) return;
    softmax(shares);
    count_untried(node, shares);
  }

  void softmax(double* logits) const {
    const double most = *std::max_element(logits, logits + rules_.actions);
    double sum = 0.0;
    for (std::int32_t a = 0; a < rules_.actions; ++a) {
      const bool never = logits[a] == -kInfinity;
      logits[a] = never ? kNoShare : std::exp(logits[a] - most);
      sum += never ? 0.0 : logits[a];
    }
    for (std::int32_t a = 0; a < rules_.actions; ++a)
      if (logits[a] != kNoShare) logits[a] = std::max(logits[a] / sum, kLeastShare);
  }

  void count_untried(Node& node, const double* shares) const {
    node.untried = kAllTried;
    node.rest = 0.0;
    double largest = 0.0;
    for (std::int32_t a = 0; a < rules_.actions; ++a) {
      if (shares[a] > largest) {
        largest = shares[a];
        node.untried = a;
      }
      node.rest += std::max(shares[a], 0.0);
    }
  }

  // Mixes a root's shares with numbers that have Dirichlet's distribution.
  void disturb(Node& node, double* shares, const float* noise) {
    const double shape = rules_.noise_shape, factor = std::lgamma(shape + 1.0);
    for (std::int32_t a = 0; a < rules_.actions; ++a)
      work_[a] = shares[a] == kNoShare
                     ? -kInfinity
                     : log_gamma_quantile(within(noise[a]), shape, factor);
    softmax(work_.data());
    for (std::int32_t a = 0; a < rules_.actions; ++a)
      if (shares[a] != kNoShare)
        shares[a] += rules_.noise_share * (work_[a] - shares[a]);
    count_untried(node, shares);
  }

  // Danihelka et al. 2022, equation 8 and appendix D; rescaled as in the authors' library mctx.
  Completed complete(std::int64_t b, const Node& node) {
    double shares = 0.0, weighted = 0.0, least = kInfinity, most = -kInfinity;
    std::int32_t most_visits = 0;
    for_children(b, node, [&](const Node& child) {
      shares += child.share;
      weighted += child.share * child.q;
      least = std::min(least, child.q);
      most = std::max(most, child.q);
      most_visits = std::max(most_visits, child.visits);
    });
    const double tried = node.visits - 1;
    const double mixed =
        tried == 0.0 ? node.value : (node.value + tried * (weighted / shares)) / (tried + 1.0);
    if (node.untried != kAllTried) {
      least = std::min(least, mixed);
      most = std::max(most, mixed);
    }
    const double scale = (rules_.visit_offset + most_visits) * rules_.value_scale;
    return {mixed, most, scale / std::max(most - least, rules_.least_span)};
  }

  // The improved policy of a node, times `all`: what a share not tried is multiplied with, and in
  // `work_` the children's, in their order. Danihelka et al. 2022, equation 11.
  struct Improved {
    double untried, all;
  };

  Improved improve(std::int64_t b, const Node& node) {
    const Completed completed = complete(b, node);
    const double untried = node.untried == kAllTried ? 0.0 : completed.factor(completed.mixed);
    double all = node.rest * untried;
    std::size_t k = 0;
    for_children(b, node, [&](const Node& child) {
      all += work_[k++] = child.share * completed.factor(child.q);
    });
    return {untried, all};
  }

  // Where visits fall farthest behind the improved policy (Danihelka et al. 2022, equation 14).
  Choice improving(std::int64_t b, const Node& node, const double* shares) {
    const Improved improved = improve(b, node);
    const double visits = node.visits;  // 1 and those of its children
    Choice choice;
    std::size_t k = 0;
    for_children(b, node, [&](const Node& child) {
      choice.offer(work_[k++] / improved.all - child.visits / visits, child.action,
                   index(b, child));
    });
    if (node.untried != kAllTried)
      choice.offer(shares[node.untried] * improved.untried / improved.all, node.untried, 0);
    return choice;
  }

  // Sequential halving at the root: the best of those that were visited so often.
  Choice visited(std::int64_t b, std::int32_t visits) {
    const Node& node = tree(b)[0];
    const double *keys = keys_.data() + b * rules_.actions, *shares = row(b, 0);
    Choice choice;
    if (visits == 0) {
      for (std::int32_t a = 0; a < rules_.actions; ++a)
        if (shares[a] != kNoShare) choice.offer(keys[a], a, 0);
      return choice;
    }
    const Completed completed = complete(b, node);
    for_children(b, node, [&](const Node& child) {
      if (child.visits == visits)
        choice.offer(keys[child.action] + completed.scale * (child.q - completed.most),
                     child.action, index(b, child));
    });
    return choice;
  }

  // Schrittwieser et al. 2020, equation 2; a node's own evaluation counts as a visit, so that the
  // first choice goes by the policy. Actions not tried have the least value.
  Choice puct(std::int64_t b, const Node& node, const double* shares) {
    const Root& root = roots_[b];
    const double visits = node.visits, base = rules_.exploration_base;
    const double factor =
        std::sqrt(visits) * (rules_.exploration + std::log((visits + base + 1.0) / base));
    const double span = std::max(root.most - root.least, rules_.least_span);
    Choice choice;
    for_children(b, node, [&](const Node& child) {
      choice.offer((child.q - root.least) / span + factor * child.share / (1 + child.visits),
                   child.action, index(b, child));
    });
    if (node.untried != kAllTried)
      choice.offer(factor * shares[node.untried], node.untried, 0);
    return choice;
  }

  Choice choose(std::int64_t b, std::int32_t at) {
    const Node& node = tree(b)[at];
    return rules_.gumbel() ? improving(b, node, row(b, at)) : puct(b, node, row(b, at));
  }

  std::int32_t index(std::int64_t b, const Node& node) {
    return static_cast<std::int32_t>(&node - tree(b));
  }

  void improved_policy(std::int64_t b, float* policy) {
    const Node& root = tree(b)[0];
    const Improved improved = improve(b, root);
    const double* shares = row(b, 0);
    for (std::int32_t a = 0; a < rules_.actions; ++a)
      policy[a] = static_cast<float>(std::max(shares[a], 0.0) * improved.untried / improved.all);
    std::size_t k = 0;
    for_children(b, root, [&](const Node& child) {
      policy[child.action] = static_cast<float>(work_[k++] / improved.all);
    });
  }

  Rules rules_;
  std::int64_t capacity_, count_ = 0;
  std::int32_t done_ = 0;
  std::size_t nodes_of_tree_;
  std::vector<std::int32_t> schedule_;
  std::vector<Node> nodes_;   // [capacity, simulations + 1]
  std::vector<double> rows_;  // [capacity, simulations + 1, actions]: logits, then shares
  std::vector<double> keys_;  // [capacity, actions]: logit and Gumbel's number of a root
  std::vector<Root> roots_;   // [capacity]
  std::vector<double> work_;  // [actions]
};

}  // namespace fastloop::search
