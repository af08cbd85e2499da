#pragma once

#include "subnet/sa/query.h"

/// Records that mirror attributes read or written by SMPs (IBTA vol 1 §15.2.5.2 to §15.2.5.13).
/// Each function answers Get and GetTable. A LID in the query selects the port that owns it.
namespace weft::subnet {

void answer_node_records(const SaQuery& query, SaAnswer& answer);
void answer_port_info_records(const SaQuery& query, SaAnswer& answer);
void answer_switch_info_records(const SaQuery& query, SaAnswer& answer);
void answer_guid_info_records(const SaQuery& query, SaAnswer& answer);
void answer_sm_info_records(const SaQuery& query, SaAnswer& answer);
void answer_link_records(const SaQuery& query, SaAnswer& answer);

}  // namespace weft::subnet
