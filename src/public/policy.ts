import { CallerError } from '../errors.ts';
import type { PolicyRules } from '../policy/rules.ts';
import type { ServerContext } from './context.ts';
import { type Answer, type Exchange, LINE_END } from './exchange.ts';
import { admitReader } from './guards.ts';
import { MESSAGES } from './schema.ts';

/** Made once for each policy, because it can have 200 kB. */
const bodies = new WeakMap<PolicyRules, string>();

/** GET /api/v1/policy: which strings the policy in force replaces, and its tag for If-Match. */
export function policyHandler(context: ServerContext) {
  return async (exchange: Exchange): Promise<Answer> => {
    await admitReader(context, exchange);
    const rules = await context.policies.current();
    if (rules.tag === undefined) throw new CallerError('not_found', MESSAGES.no_policy);
    exchange.headers.ETag = rules.tag;
    const body = bodyOf(rules);
    exchange.hold(context, Buffer.byteLength(body) + LINE_END.length);
    return { status: 200, body };
  };
}

function bodyOf(rules: PolicyRules): string {
  const { version, fields, elsewhere } = rules;
  const body = bodies.get(rules) ?? JSON.stringify({ version, fields, elsewhere });
  bodies.set(rules, body);
  return body;
}
