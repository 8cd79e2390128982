import { mutantsIn } from './mutant.ts';

/** Values in clear, nonces that are used again, records that open elsewhere. */
export const CRYPTO = mutantsIn(`
crypto/api-key.ts

api-key-biased: Digits of API keys are uniform.
in randomBase62 by unit/api-key unit/token-statistics
- if (byte < 248 && digits
+ if (byte < 256 && digits

crypto/keyring.ts

keyring-random-value: Equal values are unlinkable in random mode.
in randomDraws by unit/keyring postgres/secrecy
- randomLatin1(FINGERPRINT_BYTES)
+ '0'.repeat(FINGERPRINT_BYTES)

scope-not-drawn: Equal values of two kinds or spaces have unrelated tokens.
in #draw by unit/keyring: two scopes
- , ...scope.bytes

crypto/primitives.ts

primitives-shared-bytes: Random bytes are used once.
in nextRandom by unit/nonces postgres/secrecy
- poolNext += bytes;
+ poolNext += bytes - 4;

primitives-fixed-nonce: Each record has a nonce of its own.
in nextNonce by unit/nonces
- nextRandom(NONCE_BYTES)
+ Buffer.alloc(NONCE_BYTES)

primitives-no-aad: A record is bound to its place.
in open by unit/record unit/vectors
- decipher.setAAD(aad);

primitives-unauthenticated: A changed record does not open.
in open by unit/record
- decipher.final();

primitives-info: Subkeys differ.
in deriveKey by unit/keyring unit/vectors
- '', info
+ '', ''

crypto/record.ts

record-token-free: A record opens for its token only.
in recordAad by unit/record postgres/tamper
- aad[5 + i] = tokenFingerprint.charCodeAt(i);

record-value-free: The value fingerprint of a record cannot be exchanged.
in recordAad by unit/record postgres/tamper
- aad[5 + FINGERPRINT_BYTES + i] = valueFingerprint.charCodeAt(i);

record-version-free: A record opens under its key version only.
in recordAad by unit/record unit/keyring
- aad.writeUInt32BE(keyVersion, 1);
+ aad.writeUInt32BE(0, 1);

crypto/scope.ts

space-imitated: No text of a caller reaches a token of another space.
in fingerprintPrefix by unit/keyring unit/vectors policy/spaces
- text.charCodeAt(0) <= ESCAPE && space.length === 0 ? ESCAPED :

scope-not-fingerprinted: A token of another space is unknown.
in spaceBytes by policy/service: another space
- space === DEFAULT_SPACE
+ space !== undefined

kek/file.ts

kek-clear-sent: A KEK in clear is sent nowhere.
in readCiphertext by kek/sources
- parseKek(content) === undefined
+ content.length > 0
`);
