"""From pairs to decisions: data sets, engines that judge them, scores, rankings, reports, and the judge as a reward."""
