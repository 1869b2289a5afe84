#!/bin/sh
# Make the namespace when it is missing; what it holds is never touched.
set -eu
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" > /dev/null 2>&1 \
    || temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
