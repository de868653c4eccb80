"""Why a rule fired on a message, or did not: evaluated again on the snapshot of the message's step."""
