"""The options --tls, --user and --authorize of commands that start brokers."""

from __future__ import annotations

import click

from pykbroker.cli.parameters import together

security_options = together(
    click.option(
        "--tls",
        envvar="PYKBROKER_TLS",
        show_envvar=True,
        type=click.Choice(["auto"]),
        help="Serve clients over TLS, with a certificate that this start makes beside the data, and that the next "
        "starts reuse. A listener without a NAME is then called SSL. Requires pip install 'pykbroker[security]'.",
    ),
    click.option(
        "--user",
        "users",
        envvar="PYKBROKER_USER",
        show_envvar=True,
        metavar="NAME[:PASSWORD]|@FILE",
        multiple=True,
        help="Let this user log in, and nobody without a log-in. Repeatable, or a line of FILE each. The list of "
        "processes shows a PASSWORD to other users of this machine, but neither that of @FILE, such as "
        "@/run/secrets/users, nor a generated one: without a PASSWORD, a new user gets one that is printed once. A "
        "listener without a NAME is then called SASL_PLAINTEXT, or SASL_SSL with --tls.",
    ),
    click.option(
        "--authorize",
        envvar="PYKBROKER_AUTHORIZE",
        show_envvar=True,
        is_flag=True,
        help="Let users do only what ACLs allow. The first --user is a super user, who may do everything.",
    ),
)
