"""What a user would run instead: the strongest things that are not ours, behind the same `Contender`."""
