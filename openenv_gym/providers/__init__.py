"""Where a server runs is a provider's business."""
