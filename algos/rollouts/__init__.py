"""What algorithms share that learn from rollouts: settings, learner, policies, targets."""
