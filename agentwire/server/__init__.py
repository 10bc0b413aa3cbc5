"""The server: sessions at work, dispatch of commands, connections and what they have to write."""
