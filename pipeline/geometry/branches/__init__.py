"""The vessel's branches: skeleton, centrelines, ends, side branches."""
