"""What a server of Echo runs."""
