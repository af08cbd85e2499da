#pragma once

#include "subnet/sa/query.h"

/// Records of port and switch tables, one per block (IBTA vol 1 §15.2.5.4 to §15.2.5.11). Each
/// function answers Get and GetTable.
namespace weft::subnet {

void answer_sl_to_vl_records(const SaQuery& query, SaAnswer& answer);
void answer_vl_arbitration_records(const SaQuery& query, SaAnswer& answer);
void answer_linear_forwarding_records(const SaQuery& query, SaAnswer& answer);
void answer_multicast_forwarding_records(const SaQuery& query, SaAnswer& answer);
/// For trusted requests only (§15.4.1.2).
void answer_pkey_table_records(const SaQuery& query, SaAnswer& answer);

}  // namespace weft::subnet
