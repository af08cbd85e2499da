#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/connection_manager.h"

namespace weft::cm {

/// The RC QP of a CmReliableConnection. The caller owns and creates it; the connection only drives
/// its state transitions and posts SENDs.
class CmrcQp {
 public:
  CmrcQp() = default;
  virtual ~CmrcQp() = default;
  CmrcQp(const CmrcQp&) = delete;
  CmrcQp& operator=(const CmrcQp&) = delete;

  [[nodiscard]] virtual Qpn number() const = 0;
  /// The PSN that this side asks the peer to start with.
  [[nodiscard]] virtual Psn starting_psn() const = 0;
  /// Largest SEND, in bytes.
  [[nodiscard]] virtual std::size_t max_message_bytes() const = 0;
  [[nodiscard]] virtual Result<void> modify(const QpModification& to) = 0;
  /// Posts one SEND.
  [[nodiscard]] virtual Result<void> send(ByteSpan datagram) = 0;
};

/// Receives datagrams and state changes of one CmReliableConnection. Handlers may write to and
/// close the connection, but must not destroy it. Called on the connection's thread.
class CmrcUser {
 public:
  CmrcUser() = default;
  virtual ~CmrcUser() = default;
  CmrcUser(const CmrcUser&) = delete;
  CmrcUser& operator=(const CmrcUser&) = delete;

  /// A datagram that arrived in a REQ or REP has the fixed length of that message's private data,
  /// which carries no length of its own.
  virtual void handle_datagram(ByteSpan datagram, Instant now) = 0;
  /// The connection is established and `window()` is no longer zero.
  virtual void handle_connected(Instant now) = 0;
  /// Called once; no other handler is called after it.
  virtual void handle_closed(const Error& why, Instant now) = 0;
};

/// A communication-managed reliable connection (R-CMRC-1 to R-CMRC-6): datagrams in both directions
/// over one RC QP. The first datagram of each side travels in the private data of the REQ or REP,
/// every other one in a SEND. Not thread-safe.
class CmReliableConnection final : public CmObserver {
 public:
  CmReliableConnection(ConnectionManager& manager, CmrcQp& qp, CmrcUser& user)
      : manager_(manager), qp_(qp), user_(user) {}
  /// Closes without calling `handle_closed`. The DREQ or REJ to the peer uses the last time seen.
  ~CmReliableConnection() override;

  /// Active side. Sends nothing until the first datagram is written (R-CMRC-2).
  [[nodiscard]] Result<void> open(const Path& path, std::uint64_t service_id);
  /// Passive side: takes over the id of a ReqReceived event. The datagram of the REQ is delivered
  /// to the user, whose first datagram becomes the REP.
  [[nodiscard]] Result<void> accept(CmId id, const CmEvent& request, Instant now);
  /// Passive side: rejects instead of writing a first datagram. `datagram` is the private data of
  /// the REJ.
  [[nodiscard]] Result<void> reject(ByteSpan datagram, Instant now);

  /// Refuses a datagram that is too long. A write after the first datagram but before the
  /// connection is established is an error (Io) that closes the connection, as is an error of the
  /// QP.
  [[nodiscard]] Result<void> write(ByteSpan datagram, Instant now);
  /// Bytes that a datagram may have now; 0 until the connection is established (R-CMRC-4).
  [[nodiscard]] std::size_t window() const;
  /// Closes without calling `handle_closed`.
  void close(Instant now);

  /// The QP received a message or failed (R-CMRC-5).
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
