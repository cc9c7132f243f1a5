"""The cost model: which index takes which role in a kernel, and what that costs."""
