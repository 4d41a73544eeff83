"""Consumer groups (KIP-848): each member talks to the broker alone, and the broker says who reads what.

1. `heartbeat` is all that members ask; `plan` follows from what changed, `reconcile` is a member's way to its target.
2. Of a group, only what `replay` took from records counts. A heartbeat writes them into a `draft`, so that what it
   decides later rests on what it has decided before.
3. A partition has one holder, and is given to another when the holder no longer says that it has it, or is put out.
4. A group changes its kind with its members (`upgrade`, `downgrade`): those that use the classic protocol are served
   here as well (`classic_join`, `classic_member`), as long as one uses the other. An empty group just gives way.
"""
