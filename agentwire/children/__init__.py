"""Programs that we start: their surroundings, their groups, and that none of them outlives us.

``environment`` says what they may know of our environment, ``running`` runs one to its end for a tool, ``starting``
starts one that stays beside us, ``ending`` ends one and all that came of it, ``watchdog`` (whose program is
``reaper``) sees to it that they end with us however we end.
"""
