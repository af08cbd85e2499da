#pragma once

// What the program holds, for a daemon that answers as the kernel of its host
// (uabi/held_object_messages.h).

#include "host/foreign/daemon_channel.h"
#include "host/hca_set.h"
#include "host/placement/placements.h"
#include "uabi/messages.h"

namespace weft::host {

/// Sends the PDs, CQs, MRs, SRQs and QPs of all HCAs, in as many messages as they need, then one
/// that is the last. On the control thread.
void list_objects(const HcaSet& hcas, const Placements& placements, DaemonChannel& daemon,
                  const uabi::ListObjects& request);

}  // namespace weft::host
