"""Jobs: their ends, their members' making, and the reasons for which they wait."""
