#pragma once

#include <cstdint>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/serial.h"
#include "cm/types.h"
#include "wire/encodings.h"

namespace weft::cm {

/// Which attributes `QpAttributes` has a value for; bits of the verbs API.
enum class QpAttribute : std::uint32_t {
  State = 1U << 0,
  RemoteAccess = 1U << 3,
  PKeyIndex = 1U << 4,
  Port = 1U << 5,
  AddressVector = 1U << 7,
  PathMtu = 1U << 8,
  Timeout = 1U << 9,
  RetryCount = 1U << 10,
  RnrRetry = 1U << 11,
  RqPsn = 1U << 12,
  MaxQpRdAtomic = 1U << 13,
  AlternatePath = 1U << 14,
  MinRnrTimer = 1U << 15,
  SqPsn = 1U << 16,
  MaxDestRdAtomic = 1U << 17,
  PathMigrationState = 1U << 18,
  DestQpn = 1U << 20,
};
using QpAttributeMask = Flags<QpAttribute>;

/// Access flags of the verbs API.
enum class QpAccess : std::uint32_t {
  RemoteWrite = 1U << 1,
  RemoteRead = 1U << 2,
  RemoteAtomic = 1U << 3,
};

enum class MigrationState : std::uint8_t { Migrated, Rearm, Armed };

/// An address vector, of a port of this host.
struct QpAddress {
  Lid dlid{};
  ServiceLevel sl{};
  std::uint8_t source_path_bits{};
  std::uint8_t static_rate{};
  PortNumber port{};
  bool is_global{};
  Gid dgid{};  ///< from here on: when it is global
  std::uint32_t flow_label{};
  std::uint8_t sgid_index{};
  std::uint8_t hop_limit{};
  std::uint8_t traffic_class{};
  friend bool operator==(const QpAddress&, const QpAddress&) = default;
};

/// What a client's next QP transition needs (R-CM-3: it is the client that does it).
struct QpAttributes {
  QpAttributeMask mask{};
  QpState state{};
  wire::Mtu path_mtu{wire::Mtu::Mtu256};
  MigrationState migration{};
  Psn rq_psn{};
  Psn sq_psn{};
  Qpn dest_qpn{};
  Flags<QpAccess> access{};
  QpAddress address{};
  QpAddress alternate_address{};
  Guid ca_guid{};  ///< whose ports are meant
  PortNumber port{};
  PortNumber alternate_port{};
  std::uint16_t pkey_index{};
  std::uint16_t alternate_pkey_index{};
  std::uint8_t max_rd_atomic{};
  std::uint8_t max_dest_rd_atomic{};
  std::uint8_t min_rnr_timer{};
  std::uint8_t timeout{};  ///< exponent
  std::uint8_t alternate_timeout{};
  std::uint8_t retry_count{};
  std::uint8_t rnr_retry{};
};

}  // namespace weft::cm
