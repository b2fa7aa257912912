# SPDX-License-Identifier: Apache-2.0
#
# orch_backends: run environments and the handoff, for the host process.
orch_library(orch_backends FOLDER backends
  SOURCES
    handoff.c
    handoff_walk.c
    environments/capture.c
    environments/env_call.c
    environments/env_sandbox.c
    environments/env_stream.c
    environments/env_sweep.c
    environments/env_tree.c
    environments/environment.c
    environments/host.c
    environments/loopback_remote.c
    environments/node_client.c
    environments/node_process.c
    environments/registry.c
  LINKS orch_base PkgConfig::LIBUV
  PUBLIC_LINKS orch_confine)
orch_guest(orch-private-view SOURCES guest/private_view.c)
