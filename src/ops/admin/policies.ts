import { invalid } from '../../http/data.ts';
import { applyPolicy, findPolicy, listPolicies, planningFacts } from '../../service/policies.ts';
import { offThread, TooMuchWork } from '../../service/policy-work.ts';
import type { Vault } from '../../service/vault.ts';
import {
  type AdminAnswer,
  type AdminCall,
  type AdminDone,
  type AdminParts,
  type AdminRoutes,
  type Field,
  readFields,
  textField,
} from './call.ts';
import { refusal } from './errors.ts';
import { checkMatch } from './etags.ts';

/** Nodes read the policy every 2 s, and use none that is older than this. */
const IN_FORCE_S = 5;

const CONFIRMED: Field<readonly string[]> = {
  accepts: 'a list of the consequences that you have seen, or ["*"]',
  read: (json) => (isTexts(json) ? json : undefined),
};
/** In `confirmed`: all consequences, whatever they are. */
const ALL = '*';
const FIELDS = {
  document: textField('a policy in YAML or JSON, as text', () => true),
  confirmed: CONFIRMED,
};
const MAX_VERSION_DIGITS = 9;

export function policyRoutes({ openVault, tokenSuffix }: AdminParts): AdminRoutes {
  return {
    '/policy': {
      GET: {
        act: 'policy.get',
        run: async () => {
          const found = await findPolicy((await openVault()).policies, undefined);
          return { status: 200, body: found, etag: `"${found.version}"` };
        },
      },
      PUT: {
        act: 'policy.apply',
        run: async (call) => apply(await openVault(), tokenSuffix, call),
      },
    },
    '/policy/versions': {
      GET: {
        act: 'policy.list',
        run: async () => {
          const versions = await listPolicies((await openVault()).policies);
          return { status: 200, body: { versions } };
        },
      },
    },
    '/policy/versions/{version}': {
      GET: {
        act: 'policy.get',
        run: async ({ params: [version] }) => {
          const { policies } = await openVault();
          const found = await findPolicy(policies, numberOf(version!));
          return { status: 200, body: found, target: String(found.version) };
        },
      },
    },
    '/policy/check': {
      POST: {
        act: 'policy.check',
        changesNothing: true,
        run: async (call) => check(await openVault(), tokenSuffix, call),
      },
    },
  };
}

function numberOf(text: string): number {
  const isNumber = /^\d+$/.test(text) && text.length <= MAX_VERSION_DIGITS;
  if (!isNumber) throw invalid('path: the version must be a whole number');
  return Number(text);
}

function isTexts(json: unknown): json is string[] {
  return Array.isArray(json) && json.every((one) => typeof one === 'string');
}

async function fieldsOf(call: AdminCall) {
  const { document, confirmed = [] } = readFields(await call.json(), FIELDS);
  if (document === undefined) throw invalid('document: is missing');
  return { document, confirmed };
}

/** Documents in turn: each may take a processor, and much memory. */
let checking: Promise<unknown> = Promise.resolve();

async function checked(vault: Vault, document: string, suffix: string) {
  const check = async () => offThread('check', document, suffix, ...(await planningFacts(vault)));
  const result = checking.then(check, check);
  checking = result;
  try {
    return await result;
  } catch (error) {
    throw error instanceof TooMuchWork ? invalid(`document: ${error.message}`) : error;
  }
}

async function apply(vault: Vault, suffix: string, call: AdminCall): Promise<AdminDone> {
  const { document, confirmed } = await fieldsOf(call);
  const { mistakes, warnings, plan } = await checked(vault, document, suffix);
  if (plan === undefined) {
    const { line, column, text } = mistakes[0]!;
    const others = mistakes.length - 1;
    throw invalid(
      `document: line ${line}, column ${column}: ${text}${others > 0 ? `; and ${others} more, which /admin/v1/policy/check lists` : ''}`,
    );
  }
  const { consequences } = plan;
  checkMatch(call.headers, plan.version === 0 ? undefined : `"${plan.version}"`);
  const unseen = consequences.filter((one) => !confirmed.includes(one));
  if (unseen.length > 0 && !plan.is_same && !confirmed.includes(ALL))
    throw refusal('unconfirmed', unconfirmed(unseen));
  const applied = await applyPolicy(vault.policies, document, plan.version);
  const { version, is_new: isNew } = applied;
  const body = {
    ...applied,
    changes: isNew ? plan.changes : [],
    consequences,
    warnings,
    in_force_within_s: IN_FORCE_S,
  };
  return { status: 200, body, etag: `"${version}"`, target: String(version) };
}

function unconfirmed(unseen: readonly string[]): string {
  return `Nothing was changed: the policy has consequences that you have not confirmed. To apply it, send "confirmed": ${JSON.stringify(unseen)}`;
}

async function check(vault: Vault, suffix: string, call: AdminCall): Promise<AdminAnswer> {
  const { document } = await fieldsOf(call);
  const { plan, ...result } = await checked(vault, document, suffix);
  const { changes = [], consequences = [] } = plan ?? {};
  const body = { is_valid: plan !== undefined, ...result, changes, consequences };
  return { status: 200, body };
}
