"""The exam: lists of cases, registered predictions, measured results, scores, and the table of claims."""
