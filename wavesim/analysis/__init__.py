"""What traces say: metrics, differences, predictions, scores."""
