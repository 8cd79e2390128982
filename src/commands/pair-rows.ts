import type { Row } from '#bulk';
import { EXPIRED, PAIR_USES, type Pair } from '../service/records/pairs.ts';

/** What a field of a row says of its pair. */
type Role = 'token' | 'value' | 'kind' | 'space' | 'expires' | 'use';
export type Fields = Partial<Record<Role, string>>;

/** How rows become pairs. */
export interface PairOptions {
  readonly tokenField: string;
  readonly valueField: string;
  readonly kindField?: string;
  readonly spaceField?: string;
  readonly expiresField?: string;
  readonly useField?: string;
  readonly kind: string;
  readonly space: string;
  readonly random?: boolean;
}

export function fieldsOf(options: PairOptions, isJson: boolean): Fields {
  const usual = (name: string) => (isJson ? `${name}?` : undefined);
  const given: Partial<Record<Role, string | undefined>> = {
    token: options.tokenField,
    value: options.valueField,
    kind: options.kindField ?? usual('kind'),
    space: options.spaceField ?? usual('space'),
    expires: options.expiresField ?? usual('expires_at'),
    use: options.useField ?? usual('use'),
  };
  return Object.fromEntries(Object.entries(given).filter(([, field]) => field !== undefined));
}

/** The fields as --fields of the bulk commands has them. */
export function listOf(fields: Fields, isJson: boolean): string {
  const quoted = (name: string) => (isJson ? name : `"${name.replaceAll('"', '""')}"`);
  return Object.values(fields).map(quoted).join(',');
}

/** The fields as rows name them. */
export function namesOf(fields: Fields): Fields {
  const plain = (field: string) => field.replace(/^\$\.?|\?$/g, '');
  return Object.fromEntries(Object.entries(fields).map(([role, field]) => [role, plain(field)]));
}

/** A row without a problem becomes a pair; the other rows get their problem. */
export function pairReader(fields: Fields, { kind, space, random }: PairOptions) {
  const byField = new Map(Object.entries(fields).map(([role, field]) => [field, role as Role]));
  return (row: Row): Pair | undefined => {
    if (row.problem !== undefined) return undefined;
    const has: Fields = {};
    for (const { field, value } of row.cells) has[byField.get(field)!] = value;
    const { token, value, expires } = has;
    if (!token || value === undefined) {
      const missing = token ? 'value' : 'token';
      row.problem = { field: fields[missing], reason: `is empty: a pair has a ${missing}` };
      return undefined;
    }
    const expiresAt = expires ? Date.parse(expires) : null;
    if (Number.isNaN(expiresAt)) {
      row.problem = { field: fields.expires, reason: EXPIRED };
      return undefined;
    }
    const use = PAIR_USES.find((one) => one === (has.use || 'both'));
    if (use === undefined) {
      row.problem = { field: fields.use, reason: `is not ${PAIR_USES.join(' or ')}` };
      return undefined;
    }
    const terms = { kind: has.kind || kind, space: has.space || space };
    return {
      ...{ token, value, ...terms, expires_at: expiresAt, line: row.line },
      use: random ? 'detokenize' : use,
    };
  };
}
