import type { JwtOptions } from '../options.ts';
import {
  alone,
  httpsUrl,
  matching,
  problemsIn,
  secret,
  setting,
  together,
  type ValuesOf,
} from './setting.ts';

const HTTPS = 'an https:// URL; http:// on the loopback only';

/** Settings for callers with a JWT. */
export const JWT_SETTINGS = {
  JWT_ISSUER: secret(
    undefined,
    HTTPS,
    httpsUrl,
    'Issuer (`iss`) of JWTs that callers may send instead of an API key. Not set: API keys only.',
  ),
  JWT_AUDIENCE: setting(
    undefined,
    '1 to 256 printable ASCII characters without spaces',
    matching(/^[\x21-\x7e]{1,256}$/),
    'What a JWT must have in `aud`.',
  ),
  JWT_JWKS_URL: secret(
    undefined,
    HTTPS,
    httpsUrl,
    'Keys of JWT_ISSUER. Not set: found by OpenID Connect Discovery.',
  ),
  JWT_CLIENT_CLAIM: setting(
    'sub',
    '1 to 128 letters, digits, `_`, `.`, `:`, `/` and `-`',
    matching(/^[\w.:/-]{1,128}$/),
    'Claim of a JWT that is the subject of a client.',
  ),
  JWT_TYPE: setting(
    undefined,
    '1 to 64 letters, digits, `+`, `.` and `-`',
    matching(/^[\w+.-]{1,64}$/),
    'What a JWT must have in `typ`, such as `at+jwt` (RFC 9068). Not set: anything.',
  ),
} as const;

type JwtValues = ValuesOf<typeof JWT_SETTINGS>;

/** Skips contradictions of refused settings, which would seem not set. */
export function jwtProblems(values: JwtValues, refused: ReadonlyMap<string, string>): string[] {
  if (Object.keys(JWT_SETTINGS).some((name) => refused.has(name))) return [];
  const others = alone(values, ['JWT_JWKS_URL', 'JWT_TYPE'], 'JWT_ISSUER');
  return [
    ...problemsIn(together(values, 'JWT_ISSUER', 'JWT_AUDIENCE')),
    ...(values.JWT_ISSUER === undefined ? others : []),
  ];
}

/** @param values without problems */
export function jwtOptions(values: JwtValues): JwtOptions | undefined {
  const { JWT_ISSUER: issuer, JWT_AUDIENCE: audience } = values;
  if (issuer === undefined || audience === undefined) return undefined;
  const { JWT_JWKS_URL: jwksUrl, JWT_CLIENT_CLAIM: claim, JWT_TYPE: type } = values;
  return { issuer, audience, jwksUrl, claim, type };
}
