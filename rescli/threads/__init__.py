"""Whether a block can be shared by threads: schedules that replay, and stress."""
