import type { ApiKeyUses } from '../access/api-key-uses.ts';
import { Authenticator } from '../access/authenticator.ts';
import { IssuerKeys } from '../access/issuer-keys.ts';
import { JwtVerifier } from '../access/jwt-verifier.ts';
import { Unavailable } from '../errors.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { JwtOptions } from '../options.ts';
import { ApiKeyStore } from '../store/api-keys.ts';
import type { Vault } from '../vault/vault.ts';

/** @param jwt undefined: callers need an API key */
export async function openAuthenticator(
  { keyring, vital }: Vault,
  uses: ApiKeyUses,
  jwt: JwtOptions | undefined,
  metrics: Metrics,
  log: Log,
): Promise<Authenticator> {
  const verifier = jwt && openVerifier(jwt, (token) => keyring.apiKeyDigest(token), log);
  if (verifier !== undefined) metrics.observe({ issuerKeysAge: () => verifier.keys.ageS });
  const authenticator = new Authenticator(new ApiKeyStore(vital.keys), keyring, uses, verifier);
  // If the database went away after the vault opened, API keys are read when it is back.
  await authenticator.start().catch((error) => {
    if (!(error instanceof Unavailable)) throw error;
  });
  return authenticator;
}

function openVerifier(jwt: JwtOptions, digestOf: (token: string) => string, log: Log): JwtVerifier {
  const keys = new IssuerKeys(jwt, (problem) => {
    if (problem === undefined) return log.info({}, 'the keys of JWT_ISSUER can be fetched again');
    log.warn({ problem }, 'the keys of JWT_ISSUER cannot be fetched: the last ones serve for 1 h');
  });
  return new JwtVerifier(jwt, keys, digestOf);
}
