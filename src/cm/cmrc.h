#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/connection_manager.h"

namespace weft::cm {

/// The RC queue pair of a CmReliableConnection, which is its user's.
class CmrcQp {
 public:
  CmrcQp() = default;
  virtual ~CmrcQp() = default;
  CmrcQp(const CmrcQp&) = delete;
  CmrcQp& operator=(const CmrcQp&) = delete;

  [[nodiscard]] virtual Qpn number() const = 0;
  /// That the peer shall begin with.
  [[nodiscard]] virtual Psn starting_psn() const = 0;
  [[nodiscard]] virtual std::size_t max_message_bytes() const = 0;
  [[nodiscard]] virtual Result<void> modify(const QpAttributes& attributes) = 0;
  /// Posts one SEND.
  [[nodiscard]] virtual Result<void> send(ByteSpan datagram) = 0;
};

/// Who uses one: it may be written to and closed from these calls, but not destroyed.
class CmrcUser {
 public:
  CmrcUser() = default;
  virtual ~CmrcUser() = default;
  CmrcUser(const CmrcUser&) = delete;
  CmrcUser& operator=(const CmrcUser&) = delete;

  /// What came with the connection is as long as the private data of its message, for that has no
  /// length of its own.
  virtual void handle_datagram(ByteSpan datagram, Instant now) = 0;
  /// The window is open.
  virtual void handle_connected(Instant now) = 0;
  /// Once, and nothing after it.
  virtual void handle_closed(const Error& why, Instant now) = 0;
};

/// A communication-managed reliable connection (R-CMRC-1 to R-CMRC-6): datagrams both ways, the
/// first of each side in the private data of the REQ and REP, all others one SEND each. One thread.
class CmReliableConnection final : public CmObserver {
 public:
  CmReliableConnection(ConnectionManager& manager, CmrcQp& qp, CmrcUser& user)
      : manager_(manager), qp_(qp), user_(user) {}
  /// Closes without a word to the user. It needs a time, for the peer is told: the last one known.
  ~CmReliableConnection() override;

  /// Nothing is sent before the first datagram is written (R-CMRC-2).
  [[nodiscard]] Result<void> open(const Path& path, std::uint64_t service_id);
  /// The other side: takes the id of a ReqReceived over. Its datagram is handed to the user, whose
  /// first one becomes the REP.
  [[nodiscard]] Result<void> accept(CmId id, const CmEvent& request, Instant now);
  /// Instead of the first datagram of the side that accepts: a REJ that the other side reads.
  [[nodiscard]] Result<void> reject(ByteSpan datagram, Instant now);

  /// Too many bytes are refused. Between the first datagram and the connection it is an error that
  /// closes (Io), as is one of the QP.
  [[nodiscard]] Result<void> write(ByteSpan datagram, Instant now);
  /// Bytes of a datagram that could be written now; 0 until connected (R-CMRC-4).
  [[nodiscard]] std::size_t window() const;
  /// The user is told nothing.
  void close(Instant now);

  /// The QP received a message, or had an error (R-CMRC-5).
  void handle_receive(ByteSpan datagram, Instant now);
  void handle_qp_error(const Error& why, Instant now);

  [[nodiscard]] Handled handle(CmId id, const CmEvent& event, Instant now) override;

 private:
  enum class Phase : std::uint8_t { New, Opened, Asked, Accepted, Replied, Connected, Closed };

  [[nodiscard]] Result<void> make_ready(QpState last);
  void fail_with(Error why, Instant now);
  void handle_reply(const CmEvent& event, Instant now);

  ConnectionManager& manager_;
  CmrcQp& qp_;
  CmrcUser& user_;
  Phase phase_{Phase::New};
  CmId id_{};
  Path path_{};
  std::uint64_t service_id_{};
  Instant last_now_{};
};

}  // namespace weft::cm
