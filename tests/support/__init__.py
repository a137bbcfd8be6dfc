"""What several test modules share: reference answers, problems to decide, logs and files."""
