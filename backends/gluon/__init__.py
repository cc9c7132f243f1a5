"""The Gluon dialect, for Hopper: a warp that loads, and warpgroups that multiply."""
