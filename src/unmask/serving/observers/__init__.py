"""What looks on while models answer, whatever engine they run on, and never touches a byte of what they say."""
