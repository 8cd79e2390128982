import { CallerError } from '../errors.ts';
import type { PolicyRules } from '../policy/rules.ts';
import type { Exchange, ResponseContent } from './exchange.ts';
import { admitReader } from './guards.ts';
import { LINE_END, MESSAGES } from './schema.ts';

/** Made once for each policy, because it can have 200 kB. */
const bodies = new WeakMap<PolicyRules, string>();

/** GET /api/v1/policy: which strings the policy in force replaces, and its tag for If-Match. */
export async function servePolicy(exchange: Exchange): Promise<ResponseContent> {
  await admitReader(exchange);
  const rules = await exchange.context.policies.current();
  if (rules.tag === undefined) throw new CallerError('not_found', MESSAGES.no_policy);
  exchange.headers.ETag = rules.tag;
  const { version, fields, elsewhere } = rules;
  const body = bodies.get(rules) ?? JSON.stringify({ version, fields, elsewhere });
  bodies.set(rules, body);
  exchange.reserve(Buffer.byteLength(body) + LINE_END.length);
  return { status: 200, body };
}
