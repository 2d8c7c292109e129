"""HTTP clients that make requests for several users: what a server of one user answers must not reach another's."""

from __future__ import annotations

from http.cookiejar import CookieJar, DefaultCookiePolicy


def no_cookies() -> CookieJar:
    """Return a jar that keeps no cookie.

    A server may set cookies for all hosts of its domain. Kept, they would be sent with requests for other users, could
    make these fail, and would fill the memory.
    """
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))
