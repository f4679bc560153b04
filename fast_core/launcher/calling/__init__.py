"""The user's callbacks: made, checked, called in a thread of their own, and listened to."""
