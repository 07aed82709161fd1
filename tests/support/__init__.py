"""What the tests share: environments, comparison, a faulty network, outside programs."""
