#pragma once

#include "base/result.h"
#include "core/qp.h"

namespace weft::core {

/// Waits until every completion of the send queue that was posted before has been consumed: its
/// handler has returned (R-DRN-1). The QP is in ERR afterwards. The caller has a managed send CQ,
/// room for one more request and its completion in queue and CQ, and nobody posts meanwhile
/// (R-DRN-2). Fails, without waiting, if the QP cannot go to ERR or takes no marker.
Result<void> drain_sq(Qp& qp);
/// The same of the receive queue. InvalidArgument: the QP has an SRQ.
Result<void> drain_rq(Qp& qp);
/// Both; with an SRQ the send queue alone.
Result<void> drain_qp(Qp& qp);

/// Whether a completion's handler is that of a drain's own request.
[[nodiscard]] bool is_drain_marker(const CompletionHandler& handler);

}  // namespace weft::core
