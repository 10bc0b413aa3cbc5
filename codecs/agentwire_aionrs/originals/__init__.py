"""What an aionrs that was here before left on the disk: its configuration and its sessions.

Nothing here is needed to speak the wire; it is what lets ``agentwire-aionrs`` take the place of the other program.
"""
