/** An operation of the admin API in words. */
export interface AdminOperationText {
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  /** Schema of the body; undefined: there is none. */
  readonly body?: string;
  /** Whether a request without a body is one with its defaults. */
  readonly isBodyOptional?: boolean;
  /** Schemas of successful answers, by status. */
  readonly answers: Readonly<Record<string, string>>;
  /** Whether answers have an ETag. */
  readonly hasEtag?: boolean;
  /** Whether the operation takes If-Match. */
  readonly isConditional?: boolean;
  /** Errors besides those of every operation. */
  readonly errors: readonly string[];
}

type Methods = Readonly<Record<string, AdminOperationText>>;

const CLIENT = { tag: 'Clients', answers: { 200: 'ClientDetails' }, hasEtag: true } as const;
const CHANGE = { isConditional: true, errors: ['conflict', 'precondition_failed'] };

const CLIENTS: Readonly<Record<string, Methods>> = {
  '/clients': {
    get: {
      ...{ id: 'listClients', tag: 'Clients', summary: 'All clients' },
      description: 'As `standin client list --json`.',
      ...{ answers: { 200: 'ClientList' }, errors: [] },
    },
  },
  '/clients/{client}': {
    get: {
      ...{ ...CLIENT, id: 'getClient', summary: 'A client' },
      ...{ description: 'By its id or its name.', errors: [] },
    },
    put: {
      ...{ ...CLIENT, ...CHANGE, id: 'putClient', summary: 'Make a client, or set all settings' },
      description:
        'Makes the client with this name (201), or gives the client the settings of the body (200). A setting that is missing is default, except the space. With `If-None-Match: *` it only makes.',
      body: 'ClientSettings',
      answers: { 200: 'ClientDetails', 201: 'ClientDetails' },
    },
    patch: {
      ...{ ...CLIENT, ...CHANGE, id: 'updateClient', summary: 'Change settings of a client' },
      ...{ description: 'A setting that is missing stays.', body: 'ClientSettings' },
    },
    delete: {
      ...{ ...CLIENT, ...CHANGE, id: 'disableClient', summary: 'Disable a client' },
      description:
        'Refuses all its API keys within 5 s. The client stays, for its records. A second time, it changes nothing.',
    },
  },
};

const API_KEYS: Readonly<Record<string, Methods>> = {
  '/api-keys': {
    get: {
      ...{ id: 'listApiKeys', tag: 'API keys', summary: 'All API keys' },
      ...{ description: 'Without their texts.', answers: { 200: 'ApiKeyList' }, errors: [] },
    },
  },
  '/api-keys/{api_key_id}': {
    get: {
      ...{ id: 'getApiKey', tag: 'API keys', summary: 'An API key' },
      ...{ description: 'Without its text.', answers: { 200: 'ApiKey' }, errors: [] },
    },
    delete: {
      ...{ id: 'revokeApiKey', tag: 'API keys', summary: 'Revoke an API key' },
      description: 'It stops working within 5 s. A second time, it changes nothing.',
      ...{ answers: { 200: 'ApiKey' }, errors: [] },
    },
  },
  '/clients/{client}/api-keys': {
    get: {
      ...{ id: 'listApiKeysOfClient', tag: 'API keys', summary: 'The API keys of a client' },
      ...{ description: 'Without their texts.', answers: { 200: 'ApiKeyList' } },
      errors: [],
    },
    post: {
      ...{ id: 'issueApiKey', tag: 'API keys', summary: 'Issue an API key' },
      description: 'Only this answer has its text. A second request issues a second API key.',
      ...{ body: 'ApiKeyLife', isBodyOptional: true, answers: { 201: 'IssuedApiKey' } },
      errors: ['conflict'],
    },
  },
};

const POLICY = { tag: 'Policy', hasEtag: true } as const;

const POLICIES: Readonly<Record<string, Methods>> = {
  '/policy': {
    get: {
      ...{ ...POLICY, id: 'getPolicy', summary: 'The policy in force' },
      ...{ description: 'The newest version.', answers: { 200: 'Policy' }, errors: [] },
    },
    put: {
      ...{ ...POLICY, id: 'applyPolicy', summary: 'Apply a policy' },
      description:
        'Makes the document the next version. The newest version once more changes nothing. The ETag is the version in quotes. A policy with consequences is applied only when `confirmed` names them: see `checkPolicy`.',
      ...{ body: 'PolicyDocument', answers: { 200: 'AppliedPolicy' }, isConditional: true },
      errors: ['unconfirmed', 'precondition_failed'],
    },
  },
  '/policy/versions': {
    get: {
      ...{ id: 'listPolicyVersions', tag: 'Policy', summary: 'All versions' },
      ...{ description: 'The newest first.', answers: { 200: 'PolicyVersions' }, errors: [] },
    },
  },
  '/policy/versions/{version}': {
    get: {
      ...{ id: 'getPolicyVersion', tag: 'Policy', summary: 'A version' },
      ...{ description: 'With its document.', answers: { 200: 'Policy' }, errors: [] },
    },
  },
  '/policy/check': {
    post: {
      ...{ id: 'checkPolicy', tag: 'Policy', summary: 'Check a policy' },
      description:
        'All mistakes, what it would change, with its consequences in words, and what each client would see.',
      ...{ body: 'PolicyDocument', answers: { 200: 'CheckedPolicy' }, errors: [] },
    },
  },
};

const VALUES_AND_KEYS: Readonly<Record<string, Methods>> = {
  '/lookup': {
    post: {
      ...{ id: 'findTokens', tag: 'Values', summary: 'The tokens that values have' },
      description: 'Under every kind, or one. Random tokens cannot be found.',
      ...{ body: 'LookupRequest', answers: { 200: 'LookupAnswer' }, errors: [] },
    },
  },
  '/forget': {
    post: {
      ...{ id: 'forget', tag: 'Values', summary: 'Forget values' },
      description:
        'Removes values for ever, as `standin forget`: the named tokens, and every token of the values that any version of the policy drew, under every kind or one. `not_searched` says what it cannot find. After an error, send it again.',
      ...{ body: 'ForgetRequest', answers: { 200: 'ForgetAnswer' }, errors: [] },
    },
  },
  '/keyring': {
    get: {
      ...{ id: 'getKeyring', tag: 'Keys', summary: 'The keys of the vault' },
      description: 'As `standin keyring status`. The ETag is the version of the primary in quotes.',
      ...{ answers: { 200: 'Keyring' }, hasEtag: true, errors: [] },
    },
  },
  '/keyring/rotate': {
    post: {
      ...{ id: 'rotateKey', tag: 'Keys', summary: 'Add a DEK' },
      description:
        'It seals new records from now on. With `If-Match`, only if the primary is still the one you saw.',
      ...{ body: 'RotateRequest', isBodyOptional: true, answers: { 200: 'RotatedKey' } },
      ...{ hasEtag: true, isConditional: true, errors: ['precondition_failed'] },
    },
  },
};

/** The operations by path below /admin/v1 and method. */
export const ADMIN_OPERATIONS: Readonly<Record<string, Methods>> = {
  ...CLIENTS,
  ...API_KEYS,
  ...POLICIES,
  ...VALUES_AND_KEYS,
};
