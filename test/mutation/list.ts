import { ADMIN } from './admin.ts';
import { AUDIT } from './audit.ts';
import { BULK } from './bulk.ts';
import { CRYPTO } from './crypto.ts';
import { FENCES } from './fences.ts';
import { HTTP } from './http.ts';
import { IDENTITY } from './identity.ts';
import { LIMITS } from './limits.ts';
import type { Mutant } from './mutant.ts';
import { PACKAGES } from './packages.ts';
import { POLICY } from './policy.ts';
import { RECORDS } from './records.ts';
import { SERVICE } from './service.ts';
import { STORE } from './store.ts';

export const MUTANTS: readonly Mutant[] = [
  ...STORE,
  ...FENCES,
  ...SERVICE,
  ...RECORDS,
  ...CRYPTO,
  ...HTTP,
  ...IDENTITY,
  ...BULK,
  ...POLICY,
  ...AUDIT,
  ...LIMITS,
  ...ADMIN,
  ...PACKAGES,
];
