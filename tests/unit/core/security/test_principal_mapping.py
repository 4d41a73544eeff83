"""Tests of `ssl.principal.mapping.rules`. The expected names are those that Apache Kafka 4.3.1 returned."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import StartError
from pykbroker.core.security.principal_mapping import NoRule, PrincipalMapping

DUKE = "CN=Duke,OU=ServiceUsers,O=mycp,L=Fulton,ST=MD,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, DEFAULT", DUKE, "duke@serviceusers"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "OU=abc,CN=Bob9.b", "BOB9.B"),
        (",RULE:^CN=(\\w+)\\/x.*/$1/", "CN=x/x", "x"),
        ("RULE:no/x/ , DEFAULT", "CN=x", "CN=x"),
        ("RULE:.*/x/", "CN=x", "xx"),
        ("RULE:(.*)/$1@$4/", "a", "a@$4@$4"),
        ("RULE:(a)?.*/[$1]/", "CN=alice", "[][]"),
        ("RULE:(C)(N)=.*/$2$1$12\\$/", "CN=x/x", "NCC2$"),
        ("RULE:.*/$0/", "CN=x", "CN=x"),
        ("RULE:(.*)/$0$01/", "a", "aa"),
        ("DEFAULT", "", ""),
    ],
)
def test_the_first_rule_that_matches_names_the_principal(rules: str, name: str, expected: str) -> None:
    assert PrincipalMapping(rules).name(name) == expected


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", "CN=x"),
        (",", "CN=x"),
        ("RULE:CN=y/x/", "CN=x"),
        ("RULE:.*/$1/", "CN=x"),
        ("RULE:(.*)/$4-$5/", "CN=x"),
        ("RULE:.*/$/", "CN=x"),
        ("RULE:(.*)/$1$x/", "CN=x"),
    ],
)
def test_a_name_that_no_rule_maps_is_refused(rules: str, name: str) -> None:
    with pytest.raises(NoRule):
        PrincipalMapping(rules).name(name)


@pytest.mark.parametrize("rules", ["foo", "DEFAULTX", "RULE:a/b", "RULE:a/b/LU", "RULE:a/b/X", "DEFAULT,RULE:(/x/"])
def test_rules_that_do_not_parse_are_refused(rules: str) -> None:
    with pytest.raises(StartError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
