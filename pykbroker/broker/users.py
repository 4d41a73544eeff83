"""The users that the settings name: a start makes their SCRAM credentials, by which they also log in with PLAIN."""

from __future__ import annotations

import hmac

from pykbroker.broker.parts import Parts
from pykbroker.client.admin.users import upsertion
from pykbroker.core.errors import StartError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.sasl.scram import NONCE_BITS, SCRAM_HASHES, ScramHash, base36, scram_credential
from wire.error_codes import error_code
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wire.stored.metadata_security import UserScramCredentialRecord


async def make_users(parts: Parts) -> frozenset[str]:
    """Make the credentials of the settings' users that are missing, or of another password.

    Return the names of the users that had none. Raise StartError if the controller refuses a credential.
    """
    users, image = parts.settings.users, parts.image()
    new = frozenset(user.name for user in users if not any(credential(image, user, of) for of in SCRAM_HASHES.values()))
    for of in SCRAM_HASHES.values():  # a request alters a user once
        wanted = [user for user in users if not is_current(image, user, of, is_new=user.name in new)]
        if not wanted:
            continue
        salts = [base36(parts.world.rng.getrandbits(NONCE_BITS)).encode() for _ in wanted]
        made = [upsertion(user.name, user.password, of, salt) for user, salt in zip(wanted, salts, strict=True)]
        answer = await parts.controller.ask(AlterUserScramCredentialsRequest(upsertions=made))
        for result in answer.results:
            if result.error_code:
                reason = result.error_message or error_code(result.error_code).name
                raise StartError(f"cannot make the user {result.user} ({reason}): choose another name")
        await parts.quorum.images.wait_until(
            lambda image, of=of: all(credential(image, user, of) for user in users)  # type: ignore[misc]
        )
    return new


def credential(image: MetadataImage, user: NewUser, of: ScramHash) -> UserScramCredentialRecord | None:
    """Return the credential of a user for one mechanism, or None."""
    found = image.records.by_key.get((UserScramCredentialRecord.record_type, (user.name, of.number)))
    assert found is None or isinstance(found, UserScramCredentialRecord)
    return found


def is_current(image: MetadataImage, user: NewUser, of: ScramHash, *, is_new: bool) -> bool:
    """Whether nothing has to be done: the user has this password, or exists and the password is a generated one."""
    if user.is_generated:
        return not is_new
    found = credential(image, user, of)
    if found is None:
        return False
    made = scram_credential(of, user.password.reveal(), found.salt, found.iterations)
    return hmac.compare_digest(made.stored_key, found.stored_key)
