"""The exercises of each notebook: what is asked, why an answer is right, hints where it is not."""
