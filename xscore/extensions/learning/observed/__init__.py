"""What the files of a repository show by themselves: commands, the stack, conventions."""
