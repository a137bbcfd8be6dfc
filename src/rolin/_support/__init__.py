"""What every part uses and none of it is about bandits: checks, names, files, progress, compilation."""

__all__: list[str] = []
