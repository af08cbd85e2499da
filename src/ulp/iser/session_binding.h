#pragma once

#include "base/result.h"
#include "ulp/iser/initiator.h"

namespace weft::iser {

/// What an iSCSI session keeps of its transport from one connection to the next: a session of the
/// initiator's with one connection, which is bound to one endpoint after the other, as open-iscsi
/// does it. One thread: that of the environment's work.
class SessionBinding {
 public:
  /// The initiator outlives it.
  explicit SessionBinding(Initiator& initiator, const SessionOptions& options = {})
      : initiator_(initiator), options_(options) {}
  /// The session is gone, and its connection has been stopped; waits for that.
  ~SessionBinding();
  SessionBinding(const SessionBinding&) = delete;
  SessionBinding& operator=(const SessionBinding&) = delete;

  [[nodiscard]] Initiator& initiator() { return initiator_; }
  /// Null: no endpoint has been up yet.
  [[nodiscard]] const Session* session() const { return session_; }

  /// With the endpoint's connection, which stays until stop(). The first endpoint that is up makes
  /// session and host. InvalidArgument: it is gone or not up, or the one before was not stopped.
  Result<Connection*> bind(EndpointId endpoint, iscsi::DatamoverClient& client);
  /// Login has ended.
  Result<void> start();
  /// Again, or where nothing is bound: nothing.
  void stop(StopFlag flag);

 private:
  Initiator& initiator_;
  const SessionOptions options_;
  Session* session_{};
  SessionConnection* connection_{};
};

}  // namespace weft::iser
