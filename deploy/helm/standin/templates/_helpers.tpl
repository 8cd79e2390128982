{{- define "standin.labels" -}}
{ app.kubernetes.io/name: standin, app.kubernetes.io/component: node }
{{- end }}

{{- define "standin.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What every pod has. */}}
{{- define "standin.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  # The group of the secret files.
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
volumes:
  - name: kek
    secret:
      secretName: {{ .Values.secrets.service }}
      # 0440: the pod's user reads the file through its group. With 0444 the service does not start.
      defaultMode: 288
      items: [{ key: kek, path: kek }]
{{- end }}

{{/* What every container has. */}}
{{- define "standin.container" -}}
image: {{ include "standin.image" . }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
volumeMounts:
  - { name: kek, mountPath: /etc/standin, readOnly: true }
{{- end }}
